"""How nodes agree on ranks."""
