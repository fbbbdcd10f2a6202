"""`rowwise = "enforced"`: every record predicted and scored alone, in a process of its own that ends with it.

    curator (engine) ── control socket ──► image: modules only, one thread, never a row, never the estimator
        │                                    │ clone, once a record
        └── a fresh pipe: one record ───────► child: record → filter, limits, no clock → unpickle, predict, score
            a fresh pipe: 8 bytes ◄───────── the integer grid step of the score

| file | holds |
|---|---|
| `seccomp` | the allow-list of system calls, as a filter for the kernel |
| `limits` | CPU time, memory, no clock, silent deaths |
| `child` | what a child does with its one record |
| `image` | the process that children are copies of |
| `engine` | the curator's side: images, records dealt out by their index |
| `available` | whether this machine can do it, by doing it |
"""
