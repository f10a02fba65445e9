"""Tests of a user's training program as a pod."""
