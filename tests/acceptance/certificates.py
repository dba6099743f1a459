"""Certificates for tests, of an authority that only they know."""

import trustme

from bucketq import Tls


class Authority:
    """An authority, and a folder for what it issues."""

    def __init__(self, folder, name="ca"):
        self._folder = folder
        self._name = name
        self._ca = trustme.CA()
        self.path = str(folder / f"{name}.pem")
        self._ca.cert_pem.write_to_path(self.path)

    def issue(self, *hosts):
        """The paths of a certificate for some hosts, and of its key."""
        issued = self._ca.issue_cert(*hosts)
        cert, key = (self._folder / f"{self._name}-{hosts[0]}.{end}" for end in ("crt", "key"))
        cert.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return str(cert), str(key)

    def client(self, *hosts):
        """What a client trusts and, if hosts are given, shows."""
        cert, key = self.issue(*hosts) if hosts else (None, None)
        return Tls(ca=self.path, cert=cert, key=key)
