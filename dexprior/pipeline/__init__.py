"""The stages in a row: what `demo` and the end-to-end tests call."""
