"""`portico demo`: the product's promises, one act each, with standard clients."""
