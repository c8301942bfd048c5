"""What the AM and the NodeManager do to text, and texts that they could change.

`AppMaster` and `expanded` do what Hadoop's classes do (hadoop-facts.md#environment-and-command):
ProviderUtils.replaceTokens with Java's own `replaceAll`, ContainerLaunch.expandEnvironment, the
unescaped `export K="V"` and `exec /bin/bash -c "COMMAND 1>out 2>err "`.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st


def java_replace_all(text: str, literal: str, replacement: str) -> str:
    """Do `text.replaceAll(Pattern.quote(literal), replacement)`: in a replacement of Java, `$` and
    a backslash are special.
    """
    if literal not in text:
        return text
    out, at = "", 0
    while at < len(replacement):
        char = replacement[at]
        if char == "\\":
            at += 1
            out += replacement[at]  # a trailing one raises, as Java does
        elif char == "$":
            if replacement[at + 1 : at + 2] != "0":
                raise ValueError("Illegal group reference")
            at += 1
            out += literal
        else:
            out += char
        at += 1
    return text.replace(literal, out)


@dataclass(frozen=True)
class Container:
    """One container as the AM hands it to a NodeManager."""

    env: Mapping[str, str]
    command: str


@dataclass(frozen=True)
class AppMaster:
    """ProviderUtils and AbstractProviderService, for one component instance."""

    component: str = "worker"
    index: int = 3
    service: str = "mnist"
    user: str = "alice"
    domain: str = "example.com"

    @property
    def tokens(self) -> dict[str, str]:
        """ServiceScheduler.initGlobalTokensForSubstitute,
        ProviderUtils.initCompTokensForSubstitute.
        """
        values = {
            "SERVICE_NAME": self.service,
            "SERVICE_NAME.lc": self.service.lower(),
            "USER": self.user,
            "DOMAIN": self.domain,
            "CLUSTER_ZK_QUORUM": "zk:2181",
            "SERVICE_ZK_PATH": f"/registry/users/{self.user}/services/yarn-service/{self.service}",
            "CLUSTER_FS_URI": "hdfs://nn:8020",
            "CLUSTER_FS_HOST": "nn",
            "SERVICE_HDFS_DIR": f"hdfs://nn:8020/user/{self.user}/.yarn/services/{self.service}",
            "COMPONENT_NAME": self.component,
            "COMPONENT_NAME.lc": self.component.lower(),
            "COMPONENT_INSTANCE_NAME": f"{self.component}-{self.index}",
            "COMPONENT_ID": str(self.index),
            "CONTAINER_ID": "container_1700000000000_0001_01_000002",
        }
        return {f"${{{name}}}": value for name, value in values.items()}

    def replaced(self, text: str, tokens: Mapping[str, str]) -> str:
        for token, value in tokens.items():
            text = java_replace_all(text, token, value)
        return text

    def launch(self, env: Mapping[str, str], command: str) -> Container:
        """Build the launch context: tokens in env values, then tokens and every env key in the
        command.
        """
        own = {
            "WORK_DIR": "$PWD",
            "LOG_DIR": "<LOG_DIR>",
            "LANG": "en_US.UTF-8",
            "HADOOP_USER_NAME": self.user,
        }
        full = {**{name: self.replaced(value, self.tokens) for name, value in env.items()}, **own}
        with_env = {**self.tokens, **{f"${{{name}}}": value for name, value in full.items()}}
        return Container(
            full,
            self.replaced(command, with_env) + " 1><LOG_DIR>/stdout.txt 2><LOG_DIR>/stderr.txt ",
        )

    def file(self, content: str, env: Mapping[str, str]) -> str:
        """Write a TEMPLATE file: the tokens, every env key, and the file's own properties as `${k}`
        and `{{k}}`.
        """
        tokens = {
            **self.tokens,
            **{f"${{{name}}}": self.replaced(value, self.tokens) for name, value in env.items()},
        }
        out = self.replaced(content, tokens)
        for form in ("${content}", "{{content}}"):  # ConfigUtils.replaceProps: plain replacement
            out = out.replace(form, content)
        return out


def expanded(text: str, log_dir: str) -> str:
    """Do ContainerLaunch.expandEnvironment."""
    return (
        text.replace("<LOG_DIR>", log_dir)
        .replace("<CPS>", ":")
        .replace("{{", "$")
        .replace("}}", "")
    )


def launch_script(container: Container, directory: Path, tools: Path) -> str:
    """Write launch_container.sh."""
    lines = ["#!/bin/bash", "set -o pipefail -e"]
    lines += [f'export PATH="{tools}:/usr/bin:/bin"']
    lines += [
        f'export {name}="{expanded(value, str(directory))}"'
        for name, value in container.env.items()
    ]
    lines += [f'exec /bin/bash -c "{expanded(container.command, str(directory))}"', ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class Seen:
    """What the program in a container found."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)


# Shows its arguments and its environment as the kernel got them; it also plays `bash`, so that a
# script's text is seen and not run.
SHOW = "#!/bin/bash\ncat /proc/$$/cmdline; printf 'environment-follows\\0'; cat /proc/$$/environ\n"


def run(containers: Sequence[Container]) -> list[Seen]:
    """Run containers' launch scripts, all under one bash."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        tools = root / "tools"
        tools.mkdir()
        for tool in ("show", "bash"):
            (tools / tool).write_text(SHOW)
            (tools / tool).chmod(0o755)
        for index, container in enumerate(containers):
            directory = root / str(index)
            directory.mkdir()
            script = launch_script(container, directory, tools).encode()
            (directory / "launch.sh").write_bytes(script)
        driver = 'for d in [0-9]*; do (cd "$d" && /bin/bash launch.sh) || echo "$d: $?"; done'
        done = subprocess.run(
            ["/bin/bash", "-c", driver],
            cwd=root,
            capture_output=True,
            timeout=120,
            env={"PATH": "/usr/bin:/bin"},
        )
        assert (done.stdout, done.stderr) == (b"", b"")
        return [
            seen((root / str(index) / "stdout.txt").read_bytes())
            for index in range(len(containers))
        ]


def seen(output: bytes) -> Seen:
    argv, _, rest = output.partition(b"\0environment-follows\0")
    environment = dict(item.decode().partition("=")[::2] for item in rest.split(b"\0") if item)
    return Seen([item.decode() for item in argv.split(b"\0")][2:], environment)


SPECIAL = (
    *"\"'\\$`{}<>!#&;|*?~()[]%=^ \t\n\r",
    *(
        "${",
        "{{",
        "}}",
        "{{{",
        "}}}",
        "$(",
        "$((",
        "\\$",
        '\\"',
        '""',
        "''",
        "$'",
        "<LOG_DIR>",
        "<CPS>",
        "<LOG_DIR",
        "$$",
        "$1",
        "\\\n",
        "!!",
    ),
    *(token for token in AppMaster().tokens),
    *(
        "${V0}",
        "${V1}",
        "${WORK_DIR}",
        "${LOG_DIR}",
        "${PATH}",
        "${PS-0_HOST}",
        "{{content}}",
        "${content}",
        "$V0",
        "%s",
        "é",
        "日本",
        "🚀",
    ),
)


def fragments(exclude: str = "\0") -> st.SearchStrategy[str]:
    """Texts that are mostly made of what any of the stages could take for its own."""
    plain = st.characters(codec="utf-8", exclude_characters=exclude)
    return st.lists(st.sampled_from(SPECIAL) | plain, max_size=12).map("".join)
