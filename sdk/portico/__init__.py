"""What programs import of Portico: `portico.client`, made of the REST API's document (docs/api.md)."""
