"""Layouts of Produce and Fetch, scanned and written without decoding them."""
