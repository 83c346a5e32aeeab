"""The report: one self-contained page that shows what came in, what was refused, and what the rest is worth."""

from preflow.report.page import render_page, render_report

__all__ = ["render_page", "render_report"]
