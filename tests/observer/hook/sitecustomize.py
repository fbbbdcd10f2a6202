"""Every Python process of an observed run begins here: see `observer.frozen`."""

from observer.frozen import install

install()
