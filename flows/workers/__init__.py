"""Who scores the parts of a folder: processes of this machine, or a Dask cluster that others run."""
