"""The trial of a task before a run: it exists, each agent fits it, and nothing hangs or dies."""
