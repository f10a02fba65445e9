"""Records: frozen data that crosses a process border, and its JSON form."""
