#!/usr/bin/env python
"""Django's entry point; `manage.py up` is the whole system, `manage.py help` lists the rest."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.local")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
