"""Protocols between nodes as stories: commands, and what they made happen."""
