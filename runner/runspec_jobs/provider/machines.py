"""Machines and prices: what a service rents, what a job asks for, and the rule of choice."""

from __future__ import annotations

from runspec_jobs.machines.choice import (
    GPU_MULTIPLE as GPU_MULTIPLE,
    ChosenMachine as ChosenMachine,
    MachineRequest as MachineRequest,
    choose as choose_machines,
    chosen_machine as chosen_machine,
    is_enough_gpu_memory as is_enough_gpu_memory,
    listed_machine as listed_machine,
    price as machine_price,
)
from runspec_jobs.machines.estimate import (
    KEPT_H as KEPT_H,
    Offer as Offer,
    StandingCost as StandingCost,
    alternatives as other_machines,
    price_note as price_note,
)
from runspec_jobs.machines.machine import (
    Catalogue as Catalogue,
    Machine as Machine,
    make_unknown as unknown_machine,
    read as read_catalogue,
)
from runspec_jobs.machines.price_list import (
    NOT_READ as NOT_READ,
    ListedPrices as ListedPrices,
    PriceList as PriceList,
)
from runspec_jobs.machines.service import (
    MONTH_H as MONTH_H,
    ServicePrice as ServicePrice,
    read_services as read_services,
    service_price as service_price,
)
from runspec_jobs.machines.shortfall import (
    explain_other_chip as explain_other_chip,
    explain_shortfall as machine_shortfall,
    get_stack as get_stack,
    other_regions as other_regions,
)
from runspec_jobs.machines.usage import (
    Usage as Usage,
    read_usage as read_usage,
)

__all__ = [
    "GPU_MULTIPLE",
    "KEPT_H",
    "MONTH_H",
    "NOT_READ",
    "Catalogue",
    "ChosenMachine",
    "ListedPrices",
    "Machine",
    "MachineRequest",
    "Offer",
    "PriceList",
    "ServicePrice",
    "StandingCost",
    "Usage",
    "choose_machines",
    "chosen_machine",
    "explain_other_chip",
    "get_stack",
    "is_enough_gpu_memory",
    "listed_machine",
    "machine_price",
    "machine_shortfall",
    "other_machines",
    "other_regions",
    "price_note",
    "read_catalogue",
    "read_services",
    "read_usage",
    "service_price",
    "unknown_machine",
]
