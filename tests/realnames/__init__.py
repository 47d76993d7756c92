"""Run clients against the stand-ins by the services' real host names, over TLS, with no endpoint option set.

`world` starts it all in a network and a mount namespace of its own, and runs commands there; `inside` is what runs in
the namespaces; `front` ends TLS and hands requests on by their Host; `authority` makes the certificates; `aws` names
the services of AWS, `azure` those of Azure.
"""
