"""Backup, restore, verification, repair, copies."""
