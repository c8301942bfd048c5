"""Literals that look like secrets are refused, and harmless ones are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.errors import JobSpecError
from submit_tf_job.host.located.nodes import Location
from submit_tf_job.jobspec.job import Command, Job
from submit_tf_job.plan import plan, secrets
from tests.golden.fixed import SITE, make_job, make_role

SENTENCE = (
    "looks like a secret, and anyone who can see the job could read it; "
    "put it into a file that only you can read (on HDFS, or mounted) and pass the file's path"
)
# Each is concatenated here, so that scanners of repositories do not report this file.
AWS = "AKIA" + "ABCDEFGHIJKLMNOP"
GITHUB = "ghp_" + "a1" * 18
SLACK = "xoxb-" + "1234567890-abc"
GITLAB = "glpat-" + "a" * 20
JWT = "eyJ" + "a" * 12 + ".eyJ" + "b" * 12 + "." + "c" * 12
PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE"


def found(job: Job) -> list[tuple[str, str]]:
    return [(problem.path, problem.message) for problem in secrets.problems(job)]


def in_env(name: str, value: str) -> list[tuple[str, str]]:
    return found(make_job(make_role(env={name: value})))


def in_script(text: str) -> list[tuple[str, str]]:
    return found(make_job(make_role(command=Command(script=text))))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PASSWORD", "hunter2"),
        ("PASSWORD", "123456"),
        ("PGPASSWORD", "hunter2"),
        ("MYSQL_PWD", "hunter2"),
        ("LDAP_PASSWD", "hunter2"),
        ("DB_PASSWORD_PROD", "hunter2"),
        ("HF_TOKEN", "abcdef"),
        ("AWS_SESSION_TOKEN", "abcdef"),
        ("WANDB_API_KEY", "abcdef"),
        ("OPENAI_APIKEY", "abcdef"),
        ("AWS_SECRET_ACCESS_KEY", "abcdef"),
        ("STORAGE_ACCOUNT_KEY", "abcdef"),
        ("SSH_PRIVATE_KEY", "abcdef"),
        ("CLIENT_SECRET", "abc def"),
        ("my.credentials", "abcdef"),
        ("KEY_PASSPHRASE", "  abcdef  "),
        ("ANYTHING", AWS),
        ("ANYTHING", f"id={AWS};"),
        ("ANYTHING", GITHUB),
        ("ANYTHING", SLACK),
        ("ANYTHING", GITLAB),
        ("ANYTHING", f"Bearer {JWT}"),
        ("ANYTHING", PEM),
        ("DATABASE_URL", "postgres://alice:hunter2@db/train"),
    ],
)
def test_env_value_that_looks_like_a_secret(name: str, value: str) -> None:
    assert in_env(name, value) == [(f"roles.worker.env.{name}", f"the value of {name} {SENTENCE}")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("TOKENIZER", "bert-base"),
        ("MAX_TOKENS", "512"),
        ("MAX_TOKEN", "512"),
        ("TOKEN_EMBEDDING", "learned"),
        ("EOS_TOKEN", "</s>"),
        ("PAD_TOKEN", "[PAD]"),
        ("USE_AUTH_TOKEN", "true"),
        ("PASSWORD", ""),
        ("PASSWORD_LENGTH", "12"),
        ("PASSWORD_FILE", "secret.txt"),
        ("TOKEN_PATH", "conf/token"),
        ("SECRET_NAME", "mnist-secret"),
        ("AWS_ACCESS_KEY_ID", "from-the-file"),
        ("API_KEY", "/run/secrets/key"),
        ("API_KEY", "hdfs:///user/alice/key"),
        ("API_KEY", "file:key"),
        ("API_KEY", "$OTHER"),
        ("API_KEY", "none"),
        ("KEYBOARD", "qwerty"),
        ("MONKEY", "see"),
        ("PRIMARY_KEY", "id"),
        ("SECRETARY", "bob"),
        ("DATABASE_URL", "postgres://db.example.com:5432/train"),
        ("DATABASE_URL", "postgres://$DB_USER:$DB_PASS@db/train"),
        ("PROXY", "http://proxy.example.com:3128"),
        ("SHA", "a" * 64),
        ("NOTE", "AKIA is how they begin"),
        ("EYJ", "eyJhbGciOi.not.a.token"),
    ],
)
def test_env_value_that_is_harmless(name: str, value: str) -> None:
    assert in_env(name, value) == []


@pytest.mark.parametrize(
    ("script", "option"),
    [
        ("python t.py --password hunter2", "--password"),
        ("python t.py --password=hunter2 --epochs 3", "--password"),
        ("python t.py --db-password 'hunter 2'", "--db-password"),
        ("python t.py -token abcdef", "-token"),
        ("python t.py --api_key\tabcdef", "--api_key"),
        ("python t.py --use-token --password hunter2", "--password"),
        ("WANDB_API_KEY=abcdef python t.py", "WANDB_API_KEY"),
        ("export X=1; HF_TOKEN=abcdef; python t.py", "HF_TOKEN"),
        ("(PGPASSWORD='x' psql)", "PGPASSWORD"),
    ],
)
def test_command_option_that_looks_like_a_secret(script: str, option: str) -> None:
    assert in_script(script) == [("roles.worker.command", f"the value of {option} {SENTENCE}")]
    assert found(make_job(make_role(command=Command(argv=tuple(script.split(" ")))))) == in_script(
        script
    )


@pytest.mark.parametrize(
    "text",
    [
        AWS,
        GITHUB,
        f"curl -H 'Authorization: Bearer {JWT}' x",
        "git clone https://alice:hunter2@example.com/x",
    ],
)
def test_command_with_a_known_secret(text: str) -> None:
    assert in_script(f"run {text}") == [
        ("roles.worker.command", f"the command holds what {SENTENCE}")
    ]


@pytest.mark.parametrize(
    "script",
    [
        'python t.py --password "$PASSWORD"',
        "python t.py --password ${PASSWORD}",
        'python t.py --password="$(cat /run/secret)"',
        "python t.py --password `cat secret`",
        "python t.py --password-file secret.txt",
        "python t.py --token /run/secrets/token",
        "python t.py --use-auth-token --epochs 3",
        "python t.py --max-tokens 512 --pad-token '<pad>'",
        "python t.py --token",
        "export PASSWORD=$(cat secret)",
        "git clone https://$USER:$TOKEN@example.com/x",
        "python t.py --my-key-words 'a b' --monkey see",
    ],
)
def test_command_that_is_harmless(script: str) -> None:
    assert in_script(script) == []


def test_plan_refuses_all_secrets() -> None:
    job = make_job(
        make_role(
            "chief", env={"A_TOKEN": "x", "B_TOKEN": "y"}, command=Command(script="t --password z")
        ),
        make_role("worker"),
    )
    with pytest.raises(JobSpecError) as error:
        plan(job, SITE)
    assert [problem.path for problem in error.value.problems] == [
        "roles.chief.command",
        "roles.chief.env.A_TOKEN",
        "roles.chief.env.B_TOKEN",
    ]


def test_secret_of_all_roles_is_one_problem() -> None:
    places = {
        "env.A_TOKEN": Location("t.yaml", 4, 7),
        "command": Location("t.yaml", 2, 1),
        "roles.chief": Location("t.yaml", 9, 1),
    }
    shared = {"env": {"A_TOKEN": "x"}, "command": Command(script="t --password z")}
    job = make_job(make_role("chief", **shared), make_role("worker", **shared), places=places)
    with pytest.raises(JobSpecError) as error:
        plan(job, SITE)
    assert str(error.value) == (
        f"t.yaml:2:1: command: the value of --password {SENTENCE}\nt.yaml:4:7: "
        f"env.A_TOKEN: the value of A_TOKEN {SENTENCE}"
    )


@given(
    st.sampled_from(["PASSWORD", "HF_TOKEN", "API_KEY"]),
    st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=12, max_size=30).filter(
        lambda text: not text.isdigit()
    ),
)
def test_message_never_contains_the_literal(name: str, literal: str) -> None:
    env, option = in_env(name, literal), in_script(f"run --{name} {literal}")
    assert len(env) == len(option) == 1
    assert literal not in env[0][1] + option[0][1]


@given(st.text(max_size=60), st.text(max_size=200))
def test_problems_accepts_any_text(name: str, value: str) -> None:
    assert len(in_env(name, value)) <= 1
    assert len(in_script(f"{name} {value}")) <= 1
