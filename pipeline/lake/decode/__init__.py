"""Decoding: rows of a lake table become typed rows, by a schema that somebody wrote, or dead letters."""
