"""The platform's services. They share `services.kit` and never import each other (see `docs/architecture.md`)."""
