"""FSx for Lustre: every machine mounts it at its start, or takes no jobs."""

from __future__ import annotations

import base64
import email
import email.policy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from runspec_aws.infrastructure import lustre
from runspec_aws.options import AwsOptions
from tests.support.aws.specs import PROFILE, SHARED, problems, spec
from tests.unit.runspec_aws.test_plan import container, resources, steps

ID = "fs-0123456789abcdef0"
WORK = {"work": f"fsx:{ID}:abcdwxyz"}
MOUNTED = spec(mounts=[SHARED])


def parts(**profile: Any) -> list[Any]:
    """Give the parts of the user data, read as any reader of mail reads them."""
    data = steps(MOUNTED, shared=WORK, **profile)["template"].do.params["LaunchTemplateData"]
    text = base64.b64decode(data["UserData"], validate=True)
    message = email.message_from_bytes(text, policy=email.policy.strict)
    assert message.get_content_type() == "multipart/mixed"
    assert message["MIME-Version"] == "1.0"
    return list(message.iter_parts())


def commands(**profile: Any) -> list[list[str]]:
    (part,) = parts(**profile)
    config = yaml.safe_load(part.get_content())
    assert list(config) == ["runcmd"]
    return list(config["runcmd"])


# What a machine is told


def test_user_data_is_mail_of_one_part_for_cloud_init() -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/launch-templates.html"""
    (part,) = parts()

    assert part.get_content_type() == "text/cloud-config"
    assert part.get_content_charset() == "us-ascii"
    assert part.get_content().startswith("#cloud-config\n")
    assert not part.defects


@pytest.mark.parametrize(
    "region,host", [("eu-central-1", "amazonaws.com"), ("cn-north-1", "amazonaws.com.cn")]
)
def test_each_file_system_is_mounted_by_its_name_in_its_region(region: str, host: str) -> None:
    (command,) = commands(region=region)

    assert command[-2:] == [f"{ID}.fsx.{region}.{host}@tcp:/abcdwxyz", f"/mnt/runspec/{ID}"]


def test_settings_are_arguments_of_the_mount_script() -> None:
    (command,) = commands()

    assert command[:3] == ["sh", "-c", lustre.MOUNT]
    assert all(isinstance(word, str) for word in command)
    assert ID not in lustre.MOUNT


@pytest.mark.parametrize(
    "where",
    [
        f"fsx:{ID}",
        f"fsx:{ID}:abcdwxyz;reboot",
        f"fsx:{ID}:$(id)",
        f"fsx:{ID}:abcdwxyz/../../etc",
        f"fsx:{ID}:abcdwxyz/a b",
        "fsx:fs-0123:abcdwxyz\nx",
        f"fsx:{ID}:ninechars",
    ],
)
def test_a_malformed_file_system_is_refused(where: str) -> None:
    with pytest.raises(ValidationError, match="shared"):
        AwsOptions.model_validate({**PROFILE, "shared": {"work": where}})


def test_folders_of_one_file_system_are_one_mount_and_one_template() -> None:
    more = {"name": "x", "source": "shared://other", "target": "/x"}
    shared = {**WORK, "other": f"fsx:{ID}:abcdwxyz/team/data"}

    both = steps(spec(mounts=[SHARED, more]), shared=shared)

    assert both["template"] == steps(MOUNTED, shared=WORK)["template"]
    volumes = container(spec(mounts=[SHARED, more]), shared=shared)["volumes"]
    assert [v["host"]["sourcePath"] for v in volumes] == [
        f"/mnt/runspec/{ID}/team/data",
        f"/mnt/runspec/{ID}",
    ]


def test_a_machine_that_shuts_down_is_terminated() -> None:
    """Else EC2 keeps it, stopped, and its disk costs money."""
    made = steps(MOUNTED, shared=WORK)["template"].do.params["LaunchTemplateData"]

    assert "shutdown" in lustre.MOUNT
    assert made["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_a_disk_and_a_file_system_are_one_launch_template() -> None:
    wanted = spec(mounts=[SHARED], cluster={"disk": "100GiB"})

    made = steps(wanted, shared=WORK)["template"].do.params

    assert {"BlockDeviceMappings", "UserData"} <= set(made["LaunchTemplateData"])
    assert resources(wanted, shared=WORK)["launchTemplate"] == {
        "launchTemplateName": made["LaunchTemplateName"],
        "version": "$Latest",
    }
    alone = steps(MOUNTED, shared=WORK)["template"].do.params
    assert made["LaunchTemplateName"] != alone["LaunchTemplateName"]


@pytest.mark.parametrize("cluster,image", [({}, "ECS_AL2023"), ({"gpus": 1}, "ECS_AL2023_NVIDIA")])
def test_machines_have_the_system_that_the_client_is_a_package_of(
    cluster: dict[str, Any], image: str
) -> None:
    found = resources(spec(mounts=[SHARED], cluster=cluster), shared=WORK)

    assert found["ec2Configuration"] == [{"imageType": image}]


def test_a_file_system_that_no_job_mounts_is_no_machine_s_business() -> None:
    assert "template" not in steps(spec(), shared=WORK)
    assert "launchTemplate" not in resources(spec(), shared=WORK)


# What a machine does

TOOL = '#!/bin/sh\necho "${0##*/} $*" >> "$SEEN"\n'


def boot(folder: Path, tools: dict[str, str]) -> tuple[int, list[str]]:
    """Run what cloud-init would run, with tools that only say that they were called."""
    bin_, seen = folder / "bin", folder / "seen"
    bin_.mkdir()
    seen.touch()
    for name in ("dnf", "mount", "shutdown", "sleep"):
        (bin_ / name).write_text(TOOL + tools.get(name, ""))
        (bin_ / name).chmod(0o755)
    (bin_ / "mkdir").symlink_to("/bin/mkdir")
    (command,) = commands()
    argv = ["/bin/sh", *command[1:-1], str(folder / "mnt")]
    done = subprocess.run(
        argv, env={"PATH": str(bin_), "SEEN": str(seen)}, check=False, capture_output=True
    )
    return done.returncode, seen.read_text().splitlines()


SOURCE = f"{ID}.fsx.eu-central-1.amazonaws.com@tcp:/abcdwxyz"


@pytest.mark.process
def test_a_machine_gets_the_client_and_mounts_with_the_documented_options(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-ec2-instance.html"""
    code, seen = boot(tmp_path, {})

    assert code == 0
    assert seen == [
        "dnf install -y lustre-client",
        f"mount -t lustre -o relatime,flock {SOURCE} {tmp_path}/mnt",
    ]
    assert (tmp_path / "mnt").is_dir()


@pytest.mark.process
def test_a_machine_tries_again(tmp_path: Path) -> None:
    failing_once = '[ -e "$SEEN.once" ] || { : > "$SEEN.once"; exit 1; }\n'

    code, seen = boot(tmp_path, {"mount": failing_once})

    assert code == 0
    assert [line.split()[0] for line in seen] == ["dnf", "mount", "sleep", "dnf", "mount"]


@pytest.mark.process
def test_a_machine_without_the_file_system_ends_before_it_takes_a_job(tmp_path: Path) -> None:
    _, seen = boot(tmp_path, {"mount": "exit 1\n"})

    assert seen[-2:] == ["shutdown -h now", "sleep infinity"]
    assert sum(line.startswith("mount") for line in seen) == 20


# Where it cannot be


@pytest.mark.parametrize(
    "profile,way_out",
    [
        ({"fargate": True}, "use efs:fs-..."),
        ({"queue": "mine"}, "work: host:/FOLDER"),
        ({"launch_template": "lt-0123"}, "work: host:/FOLDER"),
    ],
    ids=["Fargate", "a queue that is there", "a launch template of one's own"],
)
def test_where_machines_are_not_ours_the_way_out_is_named(
    profile: dict[str, Any], way_out: str
) -> None:
    found = [p for p in problems(MOUNTED, shared=WORK, **profile) if p.severity == "error"]

    assert [p.path for p in found] == [("mounts", 0, "source")]
    assert way_out in (found[0].hint or "")
