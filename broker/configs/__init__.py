"""Configs of topics and brokers: definitions, layers, reading and changing them."""
