"""Drills for operators: a part of a stack is lost on purpose, under load; what follows is told and judged."""
