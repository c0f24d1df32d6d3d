"""Quality as people see it: LPIPS, DISTS, naturalness, flicker; as metrics and as losses."""
