"""What is computed: operations, shapes, types, formats and attributes, in values compared whole."""
