"""The style that is added to MLflow's page: a run's description opens whole, and nothing invites to a chat.

MLflow folds a description to 100 pixels, and opens a panel for a language model beside every page, whose requests
are refused here. Where MLflow names its parts otherwise some day, its page is as it made it.
"""

STYLE = b"""<style>
#root div:has(> [data-testid="truncation-gradient"]) {max-height: none !important; overflow: visible !important}
#root [data-testid="truncation-gradient"], #root [data-testid="show-comment-toggle"] {display: none !important}
#root [data-assistant-ui] {display: none !important}
[data-testid="note-editor-preview-content"] p {margin: 0 0 8px !important}
[data-testid="note-editor-preview-content"] img {max-width: 100%}
</style>"""
END = b"</head>"


def unfolded(page: bytes) -> bytes:
    """MLflow's first page with the style; any other page as it is."""
    return page.replace(END, STYLE + END, 1)
