"""Everything that others can see while a study runs, written down by a second user of the machine, and compared.

A *world* is a validation file; two worlds are neighbours: they differ in the records of one person. A study runs on
each of them in namespaces of its own (network, processes, temporary folders), where every mechanism gives the
outputs that it gave on the first world. Then nothing may differ that anybody else can see.
"""
