"""Reading keys and values by tenants' schemas, in processes that are ended when it takes too much."""
