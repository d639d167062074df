"""Usage and bills: from the records on topic `usage` to what an instance owes."""
