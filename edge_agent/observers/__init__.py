"""What the agent notices while it plays: hard segments, drift statistics, health. Never a pixel."""
