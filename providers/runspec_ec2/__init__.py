"""The machines of EC2 and the prices of AWS, for all providers whose jobs run on them. It sends no request."""

from runspec_ec2.catalogue import ec2_catalogue as ec2_catalogue
from runspec_ec2.service_prices import aws_price as aws_price
