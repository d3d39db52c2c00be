"""The live view: a page on loopback that shows an emulated run while it goes on, and swaps its policy (docs/live-view.md)."""
