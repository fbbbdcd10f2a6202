"""Score every record in a process of its own, which ends with it: `rowwise = "enforced"`.

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
| `handle` | one image as the curator's process holds it |
| `enforced_model` | an estimator that predicts so |
| `available` | whether this machine can do it, by doing it; what the core asks of this feature |
"""
