"""A run is a folder: whole files only, settings beside every artefact, one record a stage."""
