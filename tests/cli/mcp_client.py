# SPDX-License-Identifier: Apache-2.0
"""Drives 'moescope mcp' with the client of the protocol itself (tests/python/agents.txt); for test_mcp.py.

usage: mcp_client.py MOESCOPE DIRECTORY MODE CALLS
MODE is the client's ('auto': the newest protocol that both speak, 'legacy': with a handshake), CALLS a JSON
list of [tool, arguments]. Prints one JSON object: the version, the tools, and the answer to each call.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def talk(program, directory, mode, calls):
    server = StdioServerParameters(command=program, args=["mcp", directory])
    async with Client(server, mode=mode) as client:
        tools = await client.list_tools()
        answers = [await client.call_tool(name, arguments) for name, arguments in calls]
        return {"version": client.session.protocol_version,
                "server": client.session.server_info.name if client.session.server_info else None,
                "tools": [tool.name for tool in tools.tools],
                "answers": [[answer.is_error, answer.content[0].text] for answer in answers]}


print(json.dumps(asyncio.run(talk(*sys.argv[1:4], json.loads(sys.argv[4])))))
