"""One small tournament, played by each of ``beside_ray.py``'s ways."""
