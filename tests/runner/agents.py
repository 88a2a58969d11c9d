"""Agents that misbehave, run by the real runner under the name `tests.runner.agents:Class`."""

import asyncio

import aiohttp
from harbor.agents.agent_auth_resolution import ModelConnectionSpec
from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext


class ScriptAgent(BaseAgent):
    """Runs one script in the environment."""

    SCRIPT = "true"

    @staticmethod
    def name() -> str:
        return "script"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: BaseEnvironment) -> None:
        pass

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await environment.exec(self.SCRIPT)


class Sleeper(ScriptAgent):
    """Solves the task, leaves a child that left its session, and never ends."""

    SCRIPT = "echo 42 > /app/answer.txt; setsid sleep 8888 & touch /app/working; sleep 6666"


class FailingSetup(ScriptAgent):
    async def setup(self, environment: BaseEnvironment) -> None:
        raise RuntimeError("tmux is not in the image")


class SlowSetup(ScriptAgent):
    async def setup(self, environment: BaseEnvironment) -> None:
        await environment.exec("touch /app/setting-up; sleep 6666")


class Tamperer(ScriptAgent):
    """cases.md BAR 12: plants a reward and a conftest, and leaves a writer behind. Solves nothing."""

    SCRIPT = """
mkdir -p /logs/verifier /tests
echo 1 > /logs/verifier/reward.txt
echo 'import pytest' > /tests/conftest.py
setsid bash -c 'while :; do echo 1 > /logs/verifier/reward.txt; done' >/dev/null 2>&1 &
"""


class SessionKeeper(ScriptAgent):
    """Solves the second step alone, through a session of the first, which plants rewards all the time."""

    SCRIPT = """
[ ! -e /app/session ] || { touch /app/ask; while [ ! -e /app/second.txt ]; do sleep 0.05; done; exit; }
touch /app/session
setsid bash -c '
while :; do
  echo 1 > /logs/verifier/reward.txt
  [ ! -e /app/ask ] || echo two > /app/second.txt
done' >/dev/null 2>&1 &
"""


class LinkTamperer(ScriptAgent):
    """Puts a link where the verifier's output belongs."""

    SCRIPT = """
rm -rf /logs/verifier
mkdir /app/fake
echo 1 > /app/fake/reward.txt
ln -s /app/fake /logs/verifier
"""


class StubbornTamperer(ScriptAgent):
    """Plants a reward that cannot be removed."""

    SCRIPT = """
mount -t tmpfs planted /logs/verifier
echo 1 > /logs/verifier/reward.txt
mount -o remount,ro /logs/verifier
"""


class Server(ScriptAgent):
    """The deliverable is a process."""

    SCRIPT = "setsid sh -c 'while :; do echo 42 > /app/answer.txt; sleep 0.1; done' >/dev/null 2>&1 &"


class Remover(ScriptAgent):
    """Removes the working directory under its own feet, then goes on."""

    SCRIPT = "rm -rf /app"

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await environment.exec(self.SCRIPT)
        result = await environment.exec("echo still here")
        assert result.return_code == 126


class Diarist(ScriptAgent):
    """Writes a log in its container, stops in the middle of a key, and goes on when told."""

    SCRIPT = r"""
mkdir -p /logs/agent
exec 3> /logs/agent/diary.log
echo "read the task" >&3
echo "tried sk-ant-api03-abcdefghij0123456789" >&3
printf "now sk-ant-api03-half" >&3
touch /app/working
while [ ! -e /app/go-on ]; do sleep 0.05; done
echo "-and-the-rest" >&3
echo 42 > /app/answer.txt
"""


class Hoarder(ScriptAgent):
    """Leaves files that nobody should trust."""

    SCRIPT = r"""
mkdir -p /logs/artifacts
ln -s /etc/passwd /logs/artifacts/link
mkfifo /logs/artifacts/pipe
printf x > "$(printf '/logs/artifacts/new\nline\\%%\377')"
echo "key sk-ant-api03-abcdefghij0123456789 and AKIAABCDEFGHIJKLMNOP" > /logs/artifacts/secrets.txt
"""


class Caller(ScriptAgent):
    """Asks its model once, from the runner's process, and goes by the answer."""

    MODEL_CONNECTION = ModelConnectionSpec()
    capabilities = AgentCapabilities(base_url=True)

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        headers = {"Authorization": f"Bearer {self._extra_env['OPENAI_API_KEY']}"}
        body = {"model": "scripted-1", "messages": [{"role": "user", "content": instruction}]}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._base_url}/chat/completions", json=body, headers=headers) as answer,
        ):
            if answer.status == 200:
                content = (await answer.json())["choices"][0]["message"]["content"]
                await environment.exec(f"echo {content} > /app/answer.txt")


class Silent(Caller):
    """Could ask, but does not."""

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await environment.exec("echo 42 > /app/answer.txt")


class PatientCaller(Caller):
    """Asks, then works for ever."""

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await super().run(instruction, environment, context)
        await asyncio.sleep(6666)
