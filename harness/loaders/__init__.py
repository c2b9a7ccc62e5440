"""Loaders: one module a data set format, each turning files into a stream of samples."""
