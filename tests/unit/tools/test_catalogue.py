"""tools/catalogue makes the tables of machines from the public lists of the providers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import machine_tables
import pytest
from machine_tables import TARGETS, Made, doubted, main, merged, present, render
from machines_azure import azure_features, azure_pages, azure_prices, azure_row
from machines_ec2 import ec2_prices, ec2_row

from runspec_jobs.machines.machine import COLUMNS, read

# In the form of https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
PREFACE = """"FormatVersion","v1.0"
"Disclaimer","This pricing list is for informational purposes only."
"Publication Date","2026-07-20T00:00:00Z"
"Version","20260720000000"
"OfferCode","AmazonEC2"
"""
HEADER = (
    '"SKU","TermType","Unit","PricePerUnit","Currency","Instance Type","Tenancy",'
    '"Operating System","operation","CapacityStatus","Pre Installed S/W","Region Code"\n'
)


def offer(**own: str) -> str:
    cells = {
        "SKU": "A",
        "TermType": "OnDemand",
        "Unit": "Hrs",
        "PricePerUnit": "0.0765000000",
        "Currency": "USD",
        "Instance Type": "c6a.large",
        "Tenancy": "Shared",
        "Operating System": "Linux",
        "operation": "RunInstances",
        "CapacityStatus": "Used",
        "Pre Installed S/W": "NA",
        "Region Code": "us-east-1",
    }
    return ",".join(f'"{value}"' for value in {**cells, **own}.values()) + "\n"


def ec2_list(*offers: str) -> list[str]:
    return (PREFACE + HEADER + "".join(offers)).splitlines(keepends=True)


def test_the_list_of_aws_gives_prices_on_demand_with_linux() -> None:
    assert ec2_prices(ec2_list(offer()), "us-east-1") == {"c6a.large": "0.0765"}


@pytest.mark.parametrize(
    "key,value",
    [
        ("TermType", "Reserved"),
        ("Operating System", "Windows"),
        ("Tenancy", "Dedicated"),
        ("operation", "RunInstances:0004"),
        ("CapacityStatus", "UnusedCapacityReservation"),
        ("Pre Installed S/W", "SQL Std"),
        ("Region Code", "us-east-1-atl-1"),
        ("Unit", "Quantity"),
        ("PricePerUnit", "0.0000000000"),
    ],
)
def test_other_offers_of_aws_are_left_out(key: str, value: str) -> None:
    assert ec2_prices(ec2_list(offer(**{key: value})), "us-east-1") == {}


P5: dict[str, Any] = {
    "InstanceType": "p5.48xlarge",
    "CurrentGeneration": True,
    "SupportedUsageClasses": ["on-demand", "spot", "capacity-block"],
    "BareMetal": False,
    "Hypervisor": "nitro",
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "VCpuInfo": {"DefaultVCpus": 192},
    "MemoryInfo": {"SizeInMiB": 2097152},
    "InstanceStorageInfo": {"TotalSizeInGB": 30400},
    "NetworkInfo": {
        "NetworkCards": [{"BaselineBandwidthInGbps": 100.0}] * 32,
        "EfaInfo": {"MaximumEfaInterfaces": 32},
    },
    "GpuInfo": {
        "Gpus": [{"Name": "H100", "Count": 8, "MemoryInfo": {"SizeInMiB": 81920}}],
    },
    "BurstablePerformanceSupported": False,
}


def test_a_type_of_ec2_becomes_a_row() -> None:
    assert ec2_row(P5) == {
        "name": "p5.48xlarge",
        "family": "p5",
        "architecture": "x86_64",
        "cpus": "192",
        "memory_gib": "2048",
        "gpus": "8",
        "gpu": "H100",
        "gpu_gib": "80",
        "disk_gib": "28312",
        "network_gbps": "3200",
        "fabric": "32",
        "traits": "",
    }


def test_a_part_of_a_gpu_is_a_fraction() -> None:
    part = {"Name": "L4", "Count": 0, "LogicalGpuCount": 1, "GpuPartitionSize": 0.125}
    own = {**P5, "GpuInfo": {"Gpus": [{**part, "MemoryInfo": {"SizeInMiB": 2861}}]}}

    assert (ec2_row(own)["gpus"], ec2_row(own)["gpu_gib"]) == ("0.125", "2.8")


@pytest.mark.parametrize(
    "own,trait",
    [
        ({"BurstablePerformanceSupported": True}, "burstable"),
        ({"InstanceType": "c7i-flex.large"}, "burstable"),
        ({"BareMetal": True}, "metal"),
        ({"Hypervisor": "xen"}, "old"),
        ({"InstanceType": "a1.large"}, "old"),
        ({"NeuronInfo": {}}, "accelerator"),
        ({"SupportedUsageClasses": ["on-demand"]}, "no-spot"),
        ({"SupportedUsageClasses": ["spot"]}, "no-on-demand"),
    ],
)
def test_special_properties_of_a_machine_become_traits(own: dict[str, Any], trait: str) -> None:
    assert ec2_row({**P5, **own})["traits"] == trait


# In the form of https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
def item(**own: object) -> dict[str, object]:
    return {
        "currencyCode": "USD",
        "retailPrice": 0.0952,
        "armRegionName": "eastus",
        "productName": "Virtual Machines Daldsv6 Series",
        "skuName": "D2alds v6",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "armSkuName": "Standard_D2alds_v6",
        **own,
    }


def test_the_list_of_azure_gives_prices_on_demand_with_linux() -> None:
    pages = [{"Items": [item()]}, {"Items": [item(armRegionName="uksouth", retailPrice=0.111)]}]

    assert azure_prices(pages) == {
        "eastus": {"Standard_D2alds_v6": "0.0952"},
        "uksouth": {"Standard_D2alds_v6": "0.111"},
    }


@pytest.mark.parametrize(
    "own",
    [
        {"productName": "Virtual Machines Daldsv6 Series Windows"},
        {"productName": "Daldsv6 Series Cloud Services"},
        {"skuName": "D2alds v6 Spot"},
        {"skuName": "D2alds v6 Low Priority"},
        {"type": "Reservation"},
        {"unitOfMeasure": "1 GB Hour"},
        {"serviceName": "Virtual Machines Licenses"},
        {"armSkuName": "Dadsv5_Type1"},
        {"retailPrice": 0.0},
    ],
)
def test_other_items_of_azure_are_left_out(own: dict[str, object]) -> None:
    assert azure_prices([{"Items": [item(**own)]}]) == {}


def test_each_page_of_azure_names_the_next_one() -> None:
    class Answer:
        def __init__(self, page: object) -> None:
            self.text = json.dumps(page)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def read(self) -> str:
            return self.text

    asked: list[str] = []
    pages = [{"Items": [1], "NextPageLink": "https://next"}, {"Items": [2], "NextPageLink": None}]

    def fetched(address: str) -> Any:
        asked.append(address)
        return Answer(pages[len(asked) - 1])

    found = list(azure_pages("eastus", fetched))

    assert [page["Items"] for page in found] == [[1], [2]]
    assert asked[0].startswith("https://prices.azure.com/api/retail/prices?%24filter=serviceName")
    assert asked[1] == "https://next"


def sku(name: str, **can: str) -> dict[str, Any]:
    known = {"vCPUs": "2", "MemoryGB": "8", "CpuArchitectureType": "x64", **can}
    listed = [{"name": key, "value": value} for key, value in known.items()]
    return {"name": name, "family": "standardF", "capabilities": listed}


def test_a_size_of_azure_becomes_a_row() -> None:
    found = azure_row(
        sku(
            "Standard_ND96isr_H100_v5",
            vCPUs="96",
            MemoryGB="1900",
            GPUs="8",
            MaxResourceVolumeMB="1024000",
            RdmaEnabled="True",
            LowPriorityCapable="True",
        )
    )

    assert found == {
        "name": "Standard_ND96isr_H100_v5",
        "family": "standardF",
        "architecture": "x86_64",
        "cpus": "96",
        "memory_gib": "1900",
        "gpus": "8",
        "gpu": "H100",
        "gpu_gib": "80",
        "disk_gib": "1000",
        "fabric": "1",
        "traits": "",
    }


def test_a_size_has_the_cores_and_disk_that_are_available() -> None:
    found = azure_row(
        sku("Standard_E8-2ds_v6", vCPUs="8", vCPUsAvailable="2", NvmeDiskSizeInMiB="450560")
    )

    assert (found["cpus"], found["disk_gib"]) == ("2", "440")


@pytest.mark.parametrize(
    "name,key,value",
    [
        ("Standard_NC24ads_A100_v4", "gpu", "A100"),
        ("Standard_ND96isr_H200_v5", "gpu", "H200"),
        ("Standard_NV36ads_A10_v5", "gpu", "A10"),
        ("Standard_HB120rs_v3", "fabric", "1"),
        ("Standard_D2pds_v6", "architecture", "arm64"),
        ("Standard_B2s_v2", "traits", "burstable no-spot"),
        ("Standard_DC2ads_v5", "traits", "confidential"),
        ("Standard_F2s_v2", "traits", "old"),
        ("Standard_D2d_v5", "traits", "no-premium"),
        ("Standard_D2ds_v5", "traits", ""),
    ],
)
def test_the_name_of_a_size_says_what_it_has(name: str, key: str, value: str) -> None:
    assert azure_features(name)[key] == value


def test_a_list_replaces_the_prices_of_its_region_alone() -> None:
    rows = [{"name": "a", "cpus": "2", "here": "1", "there": "3"}, {"name": "b", "here": "2"}]

    found = merged(
        rows, [{"name": "a", "cpus": "4"}], {"here": {"b": "5", "c": "6"}}, ["here", "there"]
    )

    assert found == [
        {"name": "a", "cpus": "4", "here": "", "there": "3"},
        {"name": "b", "here": "5"},
        {"name": "c", "here": "6"},
    ]


def test_a_price_that_its_series_contradicts_is_left_out() -> None:
    rows = [
        {"name": "D2ads_v5", "cpus": "2", "here": "0.195", "there": "0.103"},
        {"name": "D4ads_v5", "cpus": "4", "here": "0.206", "there": "0.206"},
        {"name": "NV6_v5", "cpus": "6", "here": "9", "there": "9"},  # dear in all regions
        {"name": "NV12_v5", "cpus": "12", "here": "9", "there": "9"},
    ]

    assert doubted(rows, ["here", "there"]) == [("D2ads_v5", "here")]
    assert rows[0]["here"] == "?"


@pytest.mark.parametrize("kind", ["ec2", "azure"])
def test_the_table_in_the_package_is_as_the_tool_writes_it(kind: str) -> None:
    target = TARGETS[kind]

    again = render(target, present(target))

    there = Path(machine_tables.ROOT / target.file).read_text()
    assert again.splitlines() == there.splitlines()


def test_a_saved_list_makes_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, made = tmp_path / "list.csv", tmp_path / "made.json"
    saved.write_text(
        "".join(ec2_list(offer(PricePerUnit="0.09"), offer(**{"Instance Type": "z9.x"})))
    )
    types = tmp_path / "types.json"
    types.write_text(json.dumps({"InstanceTypes": [P5]}))

    command = f"ec2 --types {types} --prices {saved} --version 2026-12-01 --output {made}"
    assert main(command.split()) == 0

    data = json.loads(made.read_text())
    lines = {line.partition(",")[0]: line for line in data["table"]}
    assert lines["name"] == ",".join([*COLUMNS, "us-east-1"])
    assert lines["c6a.large"].endswith(",0.09")
    assert lines["p5.48xlarge"].endswith(",32,,")  # the list has no price for it
    assert lines["z9.x"] == "z9.x,z9,,,,,,,,,,,0.0765"
    assert data["version"] == "2026-12-01"
    assert data["prices_from"].endswith("AmazonEC2, 2026-12-01")
    assert "DescribeInstanceTypes, 2026-12-01" in data["machines_from"]
    assert "machines, version 2026-12-01" in capsys.readouterr().out


def test_a_region_can_be_added_and_others_keep_their_prices(tmp_path: Path) -> None:
    saved, made = tmp_path / "list.csv", tmp_path / "made.json"
    saved.write_text(
        "".join(ec2_list(offer(PricePerUnit="0.0912", **{"Region Code": "eu-west-1"})))
    )

    command = f"ec2 --regions eu-west-1 --prices {saved} --version 2026-12-01 --output {made}"
    assert main(command.split()) == 0

    data = json.loads(made.read_text())
    there = read("2026-12-01", data["table"], data["offered"])
    machine = there.named("c6a.large")
    assert machine is not None
    assert there.regions == ("us-east-1", "eu-west-1")
    assert (there.usd(machine, "us-east-1"), there.usd(machine, "eu-west-1")) == (0.0765, 0.0912)


SKYPILOT = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch
c6a.large,,,2.0,4.0,,0.0912,0.0301,eu-west-1,euw1-az1,x86_64
c6a.large,,,2.0,4.0,,0.0912,0.0287,eu-west-1,euw1-az2,x86_64
p5en.48xlarge,H200,8.0,192.0,2048.0,"{'Gpus': [{'Name': 'H200'}], 'n': 1}",,12.5,eu-west-1,euw1-az2,x86_64
c6a.large,,,2.0,4.0,,0.0834,0.0301,eu-north-1,eun1-az1,x86_64
"""


def test_a_table_of_skypilot_has_the_prices_of_regions(tmp_path: Path) -> None:
    saved, made = tmp_path / "vms.csv", tmp_path / "made.json"
    saved.write_text(SKYPILOT)

    command = f"ec2 --regions eu-west-1 --prices {saved} --version 2026-12-01 --output {made}"
    assert main(command.split()) == 0

    data = json.loads(made.read_text())
    there = read("2026-12-01", data["table"], data["offered"])
    small, large = there.named("c6a.large"), there.named("p5en.48xlarge")
    assert small is not None and large is not None
    assert there.regions == ("us-east-1", "eu-west-1")
    assert [there.usd(small, region) for region in there.regions] == [0.0765, 0.0912]
    assert [there.usd(large, region) for region in there.regions] == [63.296, None]


def test_a_table_that_the_package_cannot_read_is_not_written() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        render(TARGETS["ec2"], Made("1", "", "", [{"name": "a", "cpus": "two"}], {}))
