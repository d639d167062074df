"""A CKafka request: its signature, parameters and errors, pure."""
