"""What one wants to know of a run afterwards, or meanwhile: ``explain``, ``status``, ``replay``.

All of it is read from the run's folder; nothing is started, and nothing there is changed.
"""
