"""Tools of MCP servers: started by the operator's configuration, in a sandbox unless it says otherwise.

The package `mcp` (`pip install mindx[mcp]`) is imported when a server is first connected.
"""
