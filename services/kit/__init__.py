"""What every service shares: settings, database, auth, problems, tasks, outbox, streams, storage, pages, clients.

Nothing here knows a service by name, except `services.kit.discovery`, which is the list of services to mount.
"""
