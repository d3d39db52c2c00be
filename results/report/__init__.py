"""What a reader gets: the printed table, report.html, the timeline, pages of tables."""
