"""The transaction coordinator: what becomes of transactional ids. Pure."""
