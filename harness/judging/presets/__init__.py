"""Judge presets, one YAML file each."""
