"""Environments on one interface: simulated (`sim`), with learned collisions (`hybrid`), behind a socket (`reality`),
and real (`hardware`). `make_backend` switches between them by name."""




