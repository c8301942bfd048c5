"""What the AM does to the text of a file, and texts that it could change: ProviderUtils.replaceTokens
with Java's own `replaceAll` (hadoop-facts.md#environment-and-command).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


WORDS = """\
${ {{ }} {{{ }}} $( $(( \\$ \\" "" '' $' <LOG_DIR> <CPS> <LOG_DIR $$ $1 !! ${V0} ${V1} ${WORK_DIR}
${LOG_DIR} ${PATH} ${PS-0_HOST} {{content}} ${content} $V0 %s é 日本 🚀"""
SPECIAL = (*"\"'\\$`{}<>!#&;|*?~()[]%=^ \t\n\r", "\\\n", *WORDS.split(), *AppMaster().tokens)


def fragments(exclude: str = "\0") -> st.SearchStrategy[str]:
    """Texts that are mostly made of what any of the stages could take for its own."""
    plain = st.characters(codec="utf-8", exclude_characters=exclude)
    return st.lists(st.sampled_from(SPECIAL) | plain, max_size=12).map("".join)
