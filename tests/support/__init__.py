"""What several rooms of tests share: servers, proxies and programs."""
