"""Work that falls into cases, handed out: to this process, to several, to many machines through Dask."""
