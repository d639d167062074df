"""The control process, alone and as strangers meet it."""
