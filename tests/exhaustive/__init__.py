"""Every short history of a replicated partition, written as logs and audited."""
