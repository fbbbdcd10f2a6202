"""Private queries: everything that is ever asked of sensitive records, each kind a room of its own."""
